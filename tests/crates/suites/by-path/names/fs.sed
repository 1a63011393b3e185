# What awaits has another name here, because the plain name parks.
s/\bfs::try_exists(/fs::exists(/g
s/\bfs::\(canonicalize\|copy\|create_dir\|create_dir_all\|exists\|hard_link\|metadata\|read\|read_dir\|read_link\)(/fs::\1_async(/g
s/\bfs::\(read_to_string\|remove_dir\|remove_dir_all\|remove_file\|rename\|set_permissions\|symlink\|symlink_metadata\|write\)(/fs::\1_async(/g
s/\bFile::\(open\|create\|create_new\)(/File::\1_async(/g
s/\bstd::fs::\(File::\)\?\([a-z_]*\)_async(/std::fs::\1\2(/g
s/\.\(create\|file_type\|metadata\|next_entry\|open\|read\|seek\|set_permissions\|set_times\|try_clone\|write\|write_all\)(\(\([^()]\|([^()]*)\)*\))\.await/.\1_async(\2).await/
s/\.read(&mut \[\])/.read_async(\&mut [])/
s/^\( *\.create\)(\([^()]*\))$/\1_async(\2)/
# A write waits until the system has the bytes, so a flush has nothing to do.
s/\.flush()\.await/.flush()/
# A file of std is converted by std's traits.
s/\bFile::from_std(/File::from(/g
s/\b\([a-z0-9]*\)\.into_std()\.await/std::fs::File::from(\1)/
# The settings of Unix are those of std's traits.
s/^use tokio::fs::OpenOptions;/use std::os::unix::fs::OpenOptionsExt;\n&/
s/^use std::sync::{Arc, Mutex};/use std::os::unix::fs::DirBuilderExt;\n&/
