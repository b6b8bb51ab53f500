-- The oldest revision of the protocol that a grant's bearer may speak.
ALTER TABLE grants ADD COLUMN minimum_revision TEXT;
