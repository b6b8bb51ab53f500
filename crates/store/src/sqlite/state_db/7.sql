-- The resources that a session's client wants to hear of, as a list of JSON.
ALTER TABLE sessions ADD COLUMN watched TEXT NOT NULL DEFAULT '[]';
