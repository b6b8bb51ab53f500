-- Whether the call log keeps the arguments of a server's calls.
ALTER TABLE servers ADD COLUMN log_arguments INTEGER NOT NULL DEFAULT 0;
