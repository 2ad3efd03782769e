from .decode import (
    ImageSource as ImageSource,
    image_digest as image_digest,
    is_encoded as is_encoded,
    is_open_file as is_open_file,
    open_image as open_image,
)
from .folders import (
    PARTS as PARTS,
    class_folders as class_folders,
    find_images as find_images,
    label_of as label_of,
    require_one_label_each as require_one_label_each,
    visible as visible,
)
