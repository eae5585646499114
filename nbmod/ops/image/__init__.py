"""Operators on images: preprocessing, resampling, warping."""
