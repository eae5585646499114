"""Programs that nbmod and MXNet run alike: `mx` is either package, and neither is imported.

A *subject* is a function that prepares its work and returns the function to time, or a pair: what
precedes every call untimed, and that function.  `bench.peers` makes arms of them.
"""
