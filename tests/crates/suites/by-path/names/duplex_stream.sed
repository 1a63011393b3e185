# The stream's own `shutdown` has std's argument.
s/client\.shutdown()/AsyncWriteExt::shutdown(\&mut client)/
