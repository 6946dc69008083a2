"""The rules of many controllers on one store, as pure functions and state machines."""
