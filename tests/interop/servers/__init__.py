"""One server, written once with each implementation, so that tests can be a table.

Each of them offers, under the same names, as far as its library can:

    tools      add, echo, big, steps, wait, cancelled, greet, think, roots, fail, log, touch,
               grow, die
    resources  memo://today, memo://{name}
    prompts    review
    completion of the prompt's `language` and of the template's `name`

Each runs over standard input and output or, if there is a variable PORT, over HTTP: /mcp is
Streamable HTTP, whose streams can be resumed, and /sse is HTTP+SSE, where the library has that.
One has /stateless as well, without sessions in the legacy era.

`steps` takes a `pause`, in seconds, after each of its steps. `wait` reports progress once and then
waits to be cancelled; `cancelled` says how often that has happened, so that a test can see
cancellation arrive at the other end.
"""
