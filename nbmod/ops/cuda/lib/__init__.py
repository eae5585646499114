"""Device functions and kernels that several operators share."""
