"""The types of the protocol, one module per feature.

Every name can be imported from here; its module is loaded when the name is first used, because
creating a hundred attrs classes takes longer than starting a small server.
"""

# ruff: noqa: F403 (the star imports are for type checkers; at run time `NAMES` has the names)

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp_trio.protocol.types.base import *
    from mcp_trio.protocol.types.capabilities import *
    from mcp_trio.protocol.types.completion import *
    from mcp_trio.protocol.types.content import *
    from mcp_trio.protocol.types.elicitation import *
    from mcp_trio.protocol.types.lifecycle import *
    from mcp_trio.protocol.types.mrtr import *
    from mcp_trio.protocol.types.notifications import *
    from mcp_trio.protocol.types.prompts import *
    from mcp_trio.protocol.types.resources import *
    from mcp_trio.protocol.types.roots import *
    from mcp_trio.protocol.types.sampling import *
    from mcp_trio.protocol.types.subscriptions import *
    from mcp_trio.protocol.types.tasks import *
    from mcp_trio.protocol.types.tools import *

NAMES: Final[dict[str, str]] = {
    "base": """
        Annotations CacheablePage CacheableResult CacheScope Cursor EmptyResult Icon Implementation
        InputResponseRequestParams JSON JSONObject LOGGING_LEVELS LoggingLevel
        NotificationMetaObject NotificationParams PaginatedRequestParams PaginatedResult
        ProgressToken Record RequestId RequestParams Result ResultMetaObject Role""",
    "capabilities": """
        ClientCapabilities ElicitationCapability PromptsCapability RequestMetaObject
        ResourcesCapability RootsCapability SamplingCapability ServerCapabilities TasksCapability
        ToolsCapability""",
    "completion": """
        CompleteRequestParams CompleteResult Completion CompletionArgument CompletionContext
        PromptReference ResourceReference ResourceTemplateReference""",
    "content": """
        AudioContent BlobResourceContents Content ContentBlock EmbeddedResource ImageContent
        ResourceContents ResourceLink SamplingMessageContentBlock TextContent TextResourceContents
        ToolResultContent ToolUseContent UnknownContent""",
    "elicitation": """
        BooleanSchema ElicitAction ElicitationCompleteNotificationParams ElicitRequestFormParams
        ElicitRequestParams ElicitRequestURLParams ElicitResult EnumOption EnumSchema
        LegacyTitledEnumSchema MultiSelectEnumSchema NumberSchema PrimitiveSchemaDefinition
        SingleSelectEnumSchema StringSchema TitledItems TitledMultiSelectEnumSchema
        TitledSingleSelectEnumSchema UntitledItems UntitledMultiSelectEnumSchema
        UntitledSingleSelectEnumSchema""",
    "lifecycle": "DiscoverResult InitializeRequestParams InitializeResult",
    "mrtr": """
        CreateMessageRequest ElicitRequest InputRequest InputRequests InputRequiredResult
        InputResponse InputResponses ListRootsRequest""",
    "notifications": """
        CancelledNotificationParams LoggingMessageNotificationParams ProgressNotificationParams
        SetLevelRequestParams""",
    "prompts": """
        GetPromptRequestParams GetPromptResult ListPromptsResult Prompt PromptArgument
        PromptMessage""",
    "resources": """
        ListResourcesResult ListResourceTemplatesResult ReadResourceRequestParams
        ReadResourceResult Resource ResourceRequestParams ResourceTemplate
        ResourceUpdatedNotificationParams SubscribeRequestParams UnsubscribeRequestParams""",
    "roots": "ListRootsResult Root",
    "sampling": """
        CreateMessageRequestParams CreateMessageResult ModelHint ModelPreferences SamplingMessage
        ToolChoice""",
    "subscriptions": """
        SubscriptionFilter SubscriptionsAcknowledgedNotificationParams
        SubscriptionsListenRequestParams SubscriptionsListenResult
        SubscriptionsListenResultMetaObject""",
    "tasks": """
        CancelTaskResult CreateTaskResult GetTaskPayloadResult GetTaskResult ListTasksResult
        RelatedTaskMetadata Task TaskAugmentedRequestParams TaskMetadata TaskRequestParams
        TaskStatus TaskStatusNotificationParams""",
    "tools": """
        CallToolRequestParams CallToolResult ListToolsResult Tool ToolAnnotations ToolExecution""",
}
"""The names that each module gives; a test compares them with the modules."""

_MODULE_OF: Final = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
