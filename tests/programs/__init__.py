"""Programs and helpers of tests, most of which run in both nbmod and MXNet."""
