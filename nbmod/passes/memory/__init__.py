"""The memory plan: which entries share which bytes, and the verifier of that."""
