"""nbmod's tests: `cases` has the op samples, `oracle` runs the reference, real MXNet."""
