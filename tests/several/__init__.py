"""Several controllers over one store, in virtual time: drawn histories of calls and faults, judged by a plain truth.

clients ──► controllers, made of the product's own parts ──► server.py: SQLite, with sessions and locks of rows
                 killed, paused, started                      judge.py: sees each commit, and each answer
"""
