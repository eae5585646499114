"""Operators on images in a channel-blocked layout (oneDNN's nChw16c), inserted by the layout pass.

Users never create these operators and no file contains them: `passes.optimize.blocked_layout`
replaces operators on (N, C, H, W), with reorders where the two layouts meet.
"""
