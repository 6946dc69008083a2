"""The dashboard, for the person who is paged because a window does not close.

The server draws each page whole, from the status that `/v1/status` gives, with a template; a page is complete without
scripts, and any controller answers any of them. One script asks for the page's main part each second, and sends what a
visitor does to the API. `routes.add_dashboard` adds all of it to an application. It needs the extra `dashboard`;
without it, `/` names what is missing.
"""
