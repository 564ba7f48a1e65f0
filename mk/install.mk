# Installing and removing.
