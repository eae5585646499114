"""Operators on images in a channel-blocked layout (oneDNN's nChw16c), inserted by the layout pass.

Users never create these operators and no file contains them: `passes.optimize.blocked_layout`
replaces operators on (N, C, H, W), with reorders where the two layouts meet.

A *task* is the tables of one convolution (`address_tables`), which `conv_driver` runs.  Of a
`StripTask`, the output is

                     group 0                       group 1 (last)
                chunk 0       chunk 1         chunk 0       chunk 1
             +-------------+-------------+ +-------------+-------------+
    span 0   | strip strip | strip strip | | strip strip | strip       |   2 vectors of channels
             +-------------+-------------+ +-------------+-------------+
    span 1   | strip strip | strip strip | | strip strip | strip       |   2 vectors of channels
             +-------------+-------------+ +-------------+-------------+
    span 2   | strip strip | strip strip | | strip strip | strip       |   an odd vector
             +-------------+-------------+ +-------------+-------------+
             '--- part 0 ---- part 1 ----' '--- part 0 ---- part 1 ----'

    strip   PIXELS pixels by the vectors of a span: a call of the micro-kernel, sums in registers
    span    one or two vectors of output channels (data gradient: for a class of pixels)
    group   images whose pixels are numbered together, so that strips of small images are full
    chunk   strips whose pixels stay in the L2 cache while the filters of some spans pass
    part    chunks of a group: with some spans they are a job, which one thread takes

An `OuterTask`, the weight gradient, sums over the pixels of these groups, chunk by chunk.  A strip
of it is a tile: ROWS rows of the gradient by the vectors of a span.

                tile 0   tile 1  |  tile 2   tile 3
             +-------------------+-------------------+
    span 0   |                   |                   |   a job: a part of the spans with
    span 1   |  part 0, part 0   |  part 0, part 1   |   a part of the tiles; all of it reads
             +-------------------+-------------------+   a chunk of pixels, then the next
    span 2   |  part 1, part 0   |  part 1, part 1   |
             +-------------------+-------------------+
"""
