"""A user who agrees to everything: what a client under test finds as its browser.

    BROWSER='python -m mcp_trio.harness.oauth.browser %s'

It fetches the URL that it is given and goes where it is sent, as a browser does whose user is
logged in and never asked; at the end of that is the client itself, which waits for its code.
"""

import sys
import urllib.request

PATIENCE = 10.0  # seconds

if __name__ == "__main__":
    url = sys.argv[1]
    if url.startswith(("http://", "https://")):
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            response.read()
