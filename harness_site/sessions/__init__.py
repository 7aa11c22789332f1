"""Finding sessions, reading one like a conversation, stepping through its versions."""
