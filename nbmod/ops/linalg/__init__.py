"""Matrix products (GEMM) and linear algebra."""
