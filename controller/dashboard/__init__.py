"""The dashboard: for whoever is paged because a window does not close. It reads the services, and nothing else does it.

`mounting.add_dashboard` puts it on an application. It needs the extra `dashboard`; without that, `/` says so.
"""
