-- What only the relay knows: its version, its rate, what it has in memory, its last error. JSON with a limited length.
ALTER TABLE postrider_relays ADD COLUMN facts TEXT;
