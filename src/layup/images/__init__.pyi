from .addresses import located as located
from .archives import ArchiveMember as ArchiveMember
from .decode import (
    ImageSource as ImageSource,
    StoredImage as StoredImage,
    described as described,
    image_digest as image_digest,
    is_encoded as is_encoded,
    is_image as is_image,
    is_open_file as is_open_file,
    open_image as open_image,
)
from .folders import (
    class_folders as class_folders,
    find_images as find_images,
    has_photo_name as has_photo_name,
    label_of as label_of,
    visible as visible,
)
from .inputs import (
    Images as Images,
    checked_labels as checked_labels,
    given as given,
    listed as listed,
)
from .labelled import (
    PARTS as PARTS,
    LabelledPhotos as LabelledPhotos,
    require_one_label_each as require_one_label_each,
)
from .manifests import manifest_text as manifest_text
from .photos import (
    is_dataset as is_dataset,
    labelled_parts as labelled_parts,
    labelled_photos as labelled_photos,
    unlabelled_photos as unlabelled_photos,
)
from .seen import missing_files as missing_files, require_gone as require_gone
from .selection import chosen as chosen
from .tables import is_table as is_table
from .watching import changes as changes
