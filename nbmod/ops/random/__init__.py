"""Random sampling and probability densities."""
