"""Changes of a session by another process, between two writes of a process that knows the session."""

import asyncio

from checkpoints import SyncCheckpointer
from checkpoints.adapters.pydantic_ai import HarnessConversationStore
from checkpoints.framework_states import remove_and_copy_states


def delete_all_states(url: str, session_id: str) -> int:
    """Delete what a framework keeps beside the messages of a session, and return the number of deleted states."""
    with SyncCheckpointer.open(url) as cp:
        return remove_and_copy_states.delete_selected_states(cp.store, session_id)


def save_conversation_without_new_messages(url: str, conversation_id: str) -> None:
    """Replace the record of a conversation of Pydantic AI, without a version."""

    async def save() -> None:
        async with HarnessConversationStore.aopen(url) as store:
            conversation = await store.load(conversation_id)
            assert conversation is not None
            await store.save(conversation)

    asyncio.run(save())
