"""What messages mean, without any I/O.

Read in this order: `revisions` (what differs between the five), `methods` (the table that all else
reads), `types` and `convert` (what messages carry, and how it gets in and out of JSON), `fit` (how
an older peer is told), `negotiation` (how two peers agree), `errors` and `meta`.
"""
