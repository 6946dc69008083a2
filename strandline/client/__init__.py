"""What both clients share: every call as a generator of requests, retries, and the loops that drive them over HTTP."""
