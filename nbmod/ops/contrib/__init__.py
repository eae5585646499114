"""Operators of MXNet's contrib that belong to no other subject."""
