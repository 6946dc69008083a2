"""The rules: what a call may do, in which order, and when it is answered. No SQL and no HTTP."""
