"""What every other package builds on: errors, options, contexts, files, signals."""
