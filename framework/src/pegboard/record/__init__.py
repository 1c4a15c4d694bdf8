"""The record of a session: the one append point, the stores, and the pure folds that read it."""
