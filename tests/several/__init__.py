"""Several controllers over one store: drawn histories of calls and faults, judged by a plain truth.

clients ──► controllers, made of the product's own parts ──► server.py: SQLite, with sessions and locks of rows
                 killed, paused, started                      judge.py: sees each commit, and each answer

world.py has them in virtual time. caches.py has what they keep of one stream by itself: several caches that catch up
with each other through a store, against one stream that gets all calls.
"""
