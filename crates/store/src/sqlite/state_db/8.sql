-- The least severe log message that a session's client wants.
ALTER TABLE sessions ADD COLUMN level TEXT;
