"""Driver, compiler, memory, launches and the simulator of GPUs."""
