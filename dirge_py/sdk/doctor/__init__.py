"""Looking for what keeps dirge from working well here, and telling how to mend it."""
