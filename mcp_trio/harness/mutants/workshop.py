"""A healthy server for mutants, with what the demo server has no need of.

Lists in pages, pictures and sounds in prompts, resources within results, web pages to visit, models
that may use tools, and a tool that makes more tools.
"""

from __future__ import annotations

from itertools import count

from mcp_trio import (
    Context,
    EmbeddedResource,
    Image,
    MCPError,
    Server,
    TextContent,
    TextResourceContents,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from mcp_trio.protocol.errors import url_elicitation_required
from mcp_trio.protocol.revisions import supports
from mcp_trio.protocol.types.content import AudioContent, ImageContent
from mcp_trio.protocol.types.prompts import PromptMessage
from mcp_trio.protocol.types.sampling import SamplingMessage

PAGE = "https://example.org/pay"
NOTE = EmbeddedResource(
    TextResourceContents(uri="shop://notes/1", text="A note.", mime_type="text/plain")
)
HAMMER = Tool(
    name="hammer",
    description="Drives nails.",
    input_schema={
        "type": "object",
        "properties": {"nails": {"type": "integer"}},
        "required": ["nails"],
    },
)


def workshop() -> Server:
    """A new workshop; what one does to it, another does not see."""
    server = Server("workshop", version="1", page_size=2)
    made = count(1)

    @server.tool(read_only=True)
    async def note() -> EmbeddedResource:
        """Give a note."""
        return NOTE

    @server.tool(read_only=True)
    async def show() -> Image:
        """Show a picture."""
        return Image(b"not really", "image/png")

    @server.tool()
    async def make() -> str:
        """Make one more of each: a tool, a resource and a prompt."""
        number = next(made)

        async def made_one() -> str:
            return "I was made."

        server.add_tool(made_one, name=f"made-{number}")
        server.add_resource(f"shop://made/{number}", made_one)
        server.add_prompt(made_one, name=f"made-{number}")
        return f"Made the tool made-{number}."

    @server.tool(read_only=True)
    async def pay(ctx: Context) -> str:
        """Send the user to a page, and say when they are done."""
        answer = await ctx.elicit_url("pay", "Please pay.", PAGE, elicitation_id="pay-1")
        await ctx.elicitation_complete("pay-1")
        return answer.action

    @server.tool(read_only=True)
    async def collect(ctx: Context) -> str:
        """Give something that has to be paid for first."""
        if supports("url_elicitation_error", ctx.protocol_version):
            elicitation = {
                "mode": "url",
                "message": "Please pay.",
                "url": PAGE,
                "elicitationId": "collect-1",
            }
            raise url_elicitation_required([elicitation], "It is not paid for.")
        raise MCPError(1, "It is not paid for.")

    @server.tool(read_only=True)
    async def build(ctx: Context) -> str:
        """Have the client's model build something with tools."""
        messages = [SamplingMessage(role="user", content=TextContent(text="Build a box."))]
        for step in count(1):
            reply = await ctx.sample(f"step-{step}", messages, max_tokens=9, tools=[HAMMER])
            blocks = reply.content if isinstance(reply.content, list) else [reply.content]
            results = [
                ToolResultContent(block.id, [TextContent(text="Done.")])
                for block in blocks
                if isinstance(block, ToolUseContent)
            ]
            if not results or step > 3:
                break
            messages = [
                *messages,
                SamplingMessage(role="assistant", content=reply.content),
                SamplingMessage(role="user", content=list(results)),
            ]
        return "It is built."

    @server.resource("shop://notes/1", mime_type="text/plain")
    async def first_note() -> str:
        """A note."""
        return "A note."

    @server.resource("shop://picture", mime_type="image/png")
    async def picture() -> bytes:
        """A picture."""
        return b"not really"

    @server.resource("shop://empty", mime_type="text/plain")
    async def empty() -> str:
        """Nothing."""
        return ""

    @server.prompt()
    async def look() -> list[PromptMessage]:
        """Ask a model to look at something and to listen."""
        data = "bm90IHJlYWxseQ=="
        return [
            PromptMessage(role="user", content=ImageContent(data=data, mime_type="image/png")),
            PromptMessage(role="user", content=NOTE),
        ]

    @server.prompt()
    async def listen() -> list[PromptMessage]:
        """Ask a model to listen."""
        data = "bm90IHJlYWxseQ=="
        return [PromptMessage(role="user", content=AudioContent(data=data, mime_type="audio/wav"))]

    return server
