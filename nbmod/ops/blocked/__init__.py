"""Ops on images whose channels stand in blocks of one vector: what the layout pass puts in.

Nobody writes these ops and no file holds them: `passes.layout` puts them in the place of ops on
(N, C, H, W), with reorders where the two kinds meet.
"""
