"""The pack contract: what every pack promises, checked in a process of its own; tests and `pegboard check` ask it."""
