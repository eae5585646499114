"""Random numbers and densities."""
