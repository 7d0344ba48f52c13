"""What each section of a write-up says, as blocks: before (what happened), middle (what was found), after (what to do).

Every paragraph that claims something carries its references. No dressing, no files, nothing but the document.
"""
