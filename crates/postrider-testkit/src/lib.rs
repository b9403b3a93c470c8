//! Part of Postrider.
