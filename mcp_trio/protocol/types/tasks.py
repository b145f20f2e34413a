"""Tasks of 2025-11-25: requests that go on after their first answer (experimental)."""

from typing import Literal, TypeAlias

import attrs

from mcp_trio.protocol.types.base import (
    NotificationParams,
    PaginatedResult,
    Record,
    RequestParams,
    Result,
)

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


@attrs.frozen(repr=False)
class TaskMetadata(Record):
    """Asks to run a request as a task that is kept for ``ttl`` milliseconds."""

    ttl: int | None = None


@attrs.frozen(repr=False)
class RelatedTaskMetadata(Record):
    """The task that a message belongs to, in its ``_meta``."""

    task_id: str


@attrs.frozen(repr=False)
class TaskAugmentedRequestParams(RequestParams):
    """Parameters of a request that may run as a task."""

    task: TaskMetadata | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(repr=False)
class Task(Record):
    """A task's state. Times are ISO 8601; ``ttl`` (None: for ever) and intervals milliseconds."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


@attrs.frozen(repr=False)
class CreateTaskResult(Result):
    """The first answer to a request that runs as a task."""

    task: Task


@attrs.frozen(repr=False)
class TaskRequestParams(RequestParams):
    """Parameters of tasks/get, tasks/result and tasks/cancel."""

    task_id: str


@attrs.frozen(repr=False)
class GetTaskResult(Result):
    """The answer to tasks/get: a `Task` and a result in one."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


@attrs.frozen(repr=False)
class CancelTaskResult(GetTaskResult):
    """The answer to tasks/cancel."""


@attrs.frozen(repr=False)
class GetTaskPayloadResult(Result):
    """The answer to tasks/result: the result of the task's own request, all of it in ``extra``."""


@attrs.frozen(repr=False)
class ListTasksResult(PaginatedResult):
    """One page of the tasks."""

    tasks: list[Task]


@attrs.frozen(repr=False)
class TaskStatusNotificationParams(NotificationParams):
    """A task's state changed."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None
