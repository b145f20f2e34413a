"""Reports, for whoever reads them: programs, terminals, build servers, people with a browser.

    json.py       one JSON document                         to_json(report)
    terminal.py   tables and findings for a terminal        print_reports(console, reports)
    junit.py      what build servers show as tests          to_junit(report)
    html.py       one page that can be sent to somebody     to_html(report)

Each takes one report or several, as `mcp-trio check` makes several where it has many targets. What
a peer said is in all of them, and a peer may say anything: `text.py` makes it harmless.
"""
