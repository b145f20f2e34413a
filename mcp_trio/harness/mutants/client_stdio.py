"""Clients on stdio: mutants."""

from typing import Final

from mcp_trio.harness.mutants import ClientMutant, faulty_client
from mcp_trio.harness.mutants.client_faults import program_mutant

MUTANTS: Final[tuple[ClientMutant, ...]] = (
    program_mutant("client-splits-messages", faulty_client.splits, ["client-sends-lines"]),
    program_mutant("client-pads-messages", faulty_client.pads, ["client-sends-nothing-else"]),
    program_mutant(
        "client-answers-modern-servers", faulty_client.answers, ["client-sends-no-answers"]
    ),
    program_mutant("client-minds-stderr", faulty_client.minds, ["client-does-not-mind-stderr"]),
    program_mutant("client-kills-at-once", faulty_client.kills, ["client-closes-stdin-first"]),
    program_mutant(
        "client-leaves-servers-alone", faulty_client.leaves, ["client-ends-a-server-that-stays"]
    ),
    program_mutant(
        "client-hurries-servers", faulty_client.hurries, ["client-ends-a-server-that-stays"]
    ),
    program_mutant(
        "client-gives-up", faulty_client.gives_up, ["client-restarts-a-server-that-dies"]
    ),
    program_mutant(
        "client-forgets-to-listen", faulty_client.forgets, ["client-listens-again-after-a-restart"]
    ),
    program_mutant(
        "client-waits-for-the-dead", faulty_client.hangs, ["client-survives-a-server-that-dies"]
    ),
)
