"""A server in front of another server: the same again, over any transport and in either era.

    proxy = Proxy(["some-legacy-server"])
    await proxy.serve_http(8000)

app             the server that clients see
relaying        which method is passed on, and which is answered otherwise
sessions        a legacy client: a session of its own, with a server of its own behind it
shared          modern clients: all of them share one server
upstream        the server behind: opened when it is needed, and again when it has died
calls           what is being passed on right now, and to whom what comes in the meantime belongs
held            legacy calls that wait for what a modern client has been asked
changes         subscriptions, from one era into the other
passing         notifications on their way to a client, in order
eras            what differs between the eras, as tables
"""
