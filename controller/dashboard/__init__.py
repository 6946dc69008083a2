"""The dashboard, for the person who is paged because a window does not close. It only reads, except for `actions.py`.

`mount.add_dashboard` adds it to an application. It needs the extra `dashboard`; without it, `/` says so.
"""
