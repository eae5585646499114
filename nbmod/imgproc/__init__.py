"""Image codecs and the augmentation pipelines of the record iterators.

Images are NumPy arrays of uint8, (height, width, channels).  Random numbers are arguments, uniform
draws for each image, so that results do not depend on threads.

    image_headers.py         sizes in headers, checked before a library allocates memory
    codecs.py                `decode` and `encode`, by simplejpeg, OpenCV or Pillow
    kernels.py               loops over pixels that release the GIL, with twins in NumPy
    record_augmenter.py      the stages of `ImageRecordIter`, from the resize to the normalization
    record_det_augmenter.py  those of `ImageDetRecordIter`, for an image with boxes

Begin with `image_headers.py`.  Imports `base`, `core` and `ops`.
"""
