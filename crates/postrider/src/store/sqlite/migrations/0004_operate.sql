-- What an operator asked for: `retry` for an event that was dead, `replay` for one that was delivered before.
ALTER TABLE postrider_parked ADD COLUMN redelivery TEXT;
