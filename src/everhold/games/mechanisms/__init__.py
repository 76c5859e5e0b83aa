"""Who answers: everhold, the paper's mechanism, and the rivals, each with settings for a game of known length."""
