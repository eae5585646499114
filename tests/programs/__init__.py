"""Programs and helpers of tests, most of which nbmod and MXNet both run."""
