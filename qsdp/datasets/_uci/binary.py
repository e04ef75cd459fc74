"""Further sets with two classes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qsdp.datasets._uci.spec import UCISpec, uci_file, words

#: Copy at a fixed commit, since UCI has withdrawn the set.
_PIMA_MIRROR = "https://raw.githubusercontent.com/jbrownlee/Datasets/db22b4b6ad1520baf9ffacba0f0d7f301e3f806a"

_SPAM_WORDS = words(
    "make address all 3d our over remove internet order mail receive will people report addresses free business "
    "email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts "
    "pm direct cs meeting original project re edu table conference"
)

SPECS: Mapping[str, UCISpec] = MappingProxyType(
    {
        "adult": UCISpec(
            files=(uci_file("adult/adult.data"), uci_file("adult/adult.test")),
            columns=words(
                "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
                "capital-gain capital-loss hours-per-week native-country class"
            ),
            target="class",
            classes=("<=50K", ">50K"),
            labels={"<=50K.": "<=50K", ">50K.": ">50K"},
            categorical=frozenset(
                words("workclass education marital-status occupation relationship race sex native-country")
            ),
            first_lines=frozenset({"|1x3 Cross validator"}),
            n_train=32_561,
            n_samples=48_842,
            title="income above (+1) or up to (-1) 50000 dollars a year from 14 census attributes",
            citation=(
                "B. Becker, R. Kohavi. Adult. UCI Machine Learning Repository, 1996. R. Kohavi. Scaling up the "
                "accuracy of naive-Bayes classifiers: a decision-tree hybrid. KDD 1996."
            ),
            note="fnlwgt is the census' sampling weight and education-num the rank of education; both are kept.",
        ),
        "banknote": UCISpec(
            files=(uci_file("banknote/data_banknote_authentication.txt", "00267/data_banknote_authentication.txt"),),
            columns=words("variance skewness curtosis entropy class"),
            target="class",
            classes=("0", "1"),
            n_samples=1372,
            title="banknotes of class 1 (+1) or 0 (-1), genuine or forged, from 4 figures of wavelet images",
            citation="V. Lohweg. Banknote Authentication. UCI Machine Learning Repository, 2012.",
            note="The repository does not say which of the classes holds the genuine ones.",
        ),
        "heart": UCISpec(
            files=(uci_file("heart/heart.dat", "statlog/heart/heart.dat"),),
            columns=words(
                "age sex chest-pain resting-blood-pressure cholesterol fasting-blood-sugar resting-ecg max-heart-rate "
                "exercise-angina oldpeak slope vessels thal class"
            ),
            target="class",
            classes=("absence", "presence"),
            labels={"1": "absence", "2": "presence"},
            categorical=frozenset({"chest-pain", "resting-ecg", "thal"}),
            separator=None,
            n_samples=270,
            title="presence (+1) or absence (-1) of heart disease from 13 attributes",
            citation=(
                "R. Detrano et al. International application of a new probability algorithm for the diagnosis of "
                "coronary artery disease. American Journal of Cardiology 64, 304-310, 1989. UCI Machine Learning "
                "Repository (Statlog Heart)."
            ),
        ),
        "pima": UCISpec(
            files=(uci_file("pima/pima-indians-diabetes.data", "pima-indians-diabetes.data.csv", _PIMA_MIRROR),),
            columns=words("pregnancies glucose pressure skin insulin bmi pedigree age class"),
            target="class",
            classes=("negative", "positive"),
            labels={"0": "negative", "1": "positive"},
            n_samples=768,
            title="diabetes (+1) or not (-1) among women of Pima heritage from 8 measures",
            citation=(
                "J. W. Smith, J. E. Everhart, W. C. Dickson, W. C. Knowler, R. S. Johannes. Using the ADAP learning "
                "algorithm to forecast the onset of diabetes mellitus. Symposium on Computer Applications and "
                "Medical Care, 261-265, 1988. Owner: National Institute of Diabetes and Digestive and Kidney "
                "Diseases. Formerly in the UCI Machine Learning Repository (Pima Indians Diabetes)."
            ),
            licence="none stated; the repository has withdrawn the set",
            note="Zeros in glucose, pressure, skin, insulin and bmi stand for missing values and are left as they are.",
        ),
        "spambase": UCISpec(
            files=(uci_file("spambase/spambase.data"),),
            columns=(
                *(f"word_freq_{word}" for word in _SPAM_WORDS),
                *(f"char_freq_{sign}" for sign in ";([!$#"),
                *(f"capital_run_length_{what}" for what in ("average", "longest", "total")),
                "class",
            ),
            target="class",
            classes=("non-spam", "spam"),
            labels={"0": "non-spam", "1": "spam"},
            n_samples=4601,
            title="spam (+1) or not (-1) from 57 frequencies of words, signs and capital letters",
            citation=(
                "M. Hopkins, E. Reeber, G. Forman, J. Suermondt. Spambase. UCI Machine Learning Repository, 1999."
            ),
        ),
    }
)
